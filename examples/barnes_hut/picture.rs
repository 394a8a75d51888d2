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

/// Fewer bodies than this are drawn as blots, of so many points to each side; a point each would hardly be seen.
const FEW: (usize, usize) = (1000, 2);

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
        let blot = if bodies.len() < FEW.0 { FEW.1 } else { 0 };
        for body in bodies {
            let seen = (body.position - self.centre) / self.reach;
            let (x, y) = ((seen.x + 1.0) / 2.0 * SIDE as f64, (1.0 - seen.y) / 2.0 * SIDE as f64);
            if (0.0..SIDE as f64).contains(&x) && (0.0..SIDE as f64).contains(&y) {
                let around =
                    |middle: f64| middle as usize - blot.min(middle as usize)..=(middle as usize + blot).min(SIDE - 1);
                for (x, y) in around(y).flat_map(|y| around(x).map(move |x| (x, y))) {
                    points[y * SIDE + x] += self.lights[body.number as usize];
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_drawn_where_they_are_up_is_up_and_what_is_outside_is_left_out() {
        let positions = [DVec3::new(0.5, 0.5, 9.0), DVec3::new(-0.99999, -0.99999, 0.0), DVec3::new(0.0, 1.5, 0.0)];
        let bodies: Vec<_> =
            (0..).zip(positions).map(|(number, position)| Body::new(number, 1.0, position, DVec3::ZERO)).collect();
        let mut strip = Strip::new(&bodies, DVec3::ZERO, 1.0);
        strip.take(&bodies);
        let bytes = strip.bytes(SIDE, SIDE);
        let lit: Vec<_> = (0..SIDE * SIDE).filter(|point| bytes[point * 3..][..3] != [0; 3]).collect();
        let blot = |xs: std::ops::Range<usize>, ys: std::ops::Range<usize>| {
            ys.flat_map(move |y| xs.clone().map(move |x| y * SIDE + x))
        };
        // The second one in the corner, of which a part of the blot is outside.
        let expected: Vec<_> = blot(238..243, 78..83).chain(blot(0..3, SIDE - 3..SIDE)).collect();
        assert_eq!(lit, expected);
        let [left, right] = [lit[lit.len() - 1], lit[0]].map(|point| (bytes[point * 3], bytes[point * 3 + 2]));
        assert!(left.0 > left.1 && right.0 < right.1, "began on the left: more red than blue; right: the reverse");
    }
}
