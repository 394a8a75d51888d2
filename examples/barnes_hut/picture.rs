//! A strip of pictures: where the bodies are at several moments, the more of them the brighter.

use std::error::Error;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use glam::{DVec3, Vec3};

use crate::bodies::Body;

/// Width and height of one picture in points.
const SIDE: usize = 320;
const COLUMNS: usize = 3;

/// Light of bodies that began on the left, and on the right, of the centre of mass.
const LIGHTS: [Vec3; 2] = [Vec3::new(1.0, 0.55, 0.15), Vec3::new(0.25, 0.55, 1.0)];

/// The pictures so far.
#[derive(Debug)]
pub(crate) struct Strip {
    centre: DVec3,
    /// Half the width of what is seen.
    reach: f64,
    /// By the number of a body.
    lights: Vec<Vec3>,
    pictures: Vec<Vec<Vec3>>,
}

impl Strip {
    /// Pictures of what is within `reach` of `centre`, seen along the z axis.
    pub(crate) fn new(bodies: &[Body], centre: DVec3, reach: f64) -> Self {
        let mut lights = vec![Vec3::ZERO; bodies.len()];
        for body in bodies {
            lights[body.number as usize] = LIGHTS[usize::from(body.position.x > centre.x)];
        }
        Self { centre, reach, lights, pictures: Vec::new() }
    }

    /// Adds a picture.
    pub(crate) fn take(&mut self, bodies: &[Body]) {
        let mut points = vec![Vec3::ZERO; SIDE * SIDE];
        for body in bodies {
            let seen = (body.position - self.centre) / self.reach;
            let (x, y) = ((seen.x + 1.0) / 2.0 * SIDE as f64, (1.0 - seen.y) / 2.0 * SIDE as f64);
            if (0.0..SIDE as f64).contains(&x) && (0.0..SIDE as f64).contains(&y) {
                points[y as usize * SIDE + x as usize] += self.lights[body.number as usize];
            }
        }
        self.pictures.push(points);
    }

    /// Writes all pictures as one PNG, in rows of three.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Box<dyn Error>> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let (columns, rows) = (COLUMNS.min(self.pictures.len()), self.pictures.len().div_ceil(COLUMNS));
        let (width, height) = (columns * SIDE, rows * SIDE);
        let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width as u32, height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.bytes(width, height))?;
        writer.finish()?;
        Ok(())
    }

    fn bytes(&self, width: usize, height: usize) -> Vec<u8> {
        let mut bytes = vec![0; width * height * 3];
        for (number, picture) in self.pictures.iter().enumerate() {
            let (left, top) = (number % COLUMNS * SIDE, number / COLUMNS * SIDE);
            for (y, row) in picture.chunks(SIDE).enumerate() {
                let begin = ((top + y) * width + left) * 3;
                for (point, bytes) in row.iter().zip(bytes[begin..].chunks_exact_mut(3)) {
                    bytes.copy_from_slice(&colour(*point));
                }
            }
        }
        bytes
    }
}

/// From light to a colour: one body is well visible, and many are not all white.
fn colour(light: Vec3) -> [u8; 3] {
    let shown = light.map(|light| 1.0 - (-0.5 * light).exp());
    shown.to_array().map(|part| (part.powf(0.6) * 255.0) as u8)
}
